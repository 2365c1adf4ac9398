-- Frees a read-write lock whoever holds it in this mode, and tells the waiters.
-- KEYS: the lock. ARGV: the mode, channel, message.
-- Reply: how many heard it; -1 it was not held in this mode; -2 freed, but the message was refused.
if redis.call('hget', KEYS[1], 'mode') ~= ARGV[1] then
    return -1
end
redis.call('del', KEYS[1])
local told = redis.pcall('publish', ARGV[2], ARGV[3])
return type(told) == 'table' and -2 or told

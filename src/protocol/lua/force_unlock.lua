-- Frees a plain lock whoever holds it, and tells the waiters.
-- KEYS: the lock. ARGV: channel.
-- Reply: how many heard it; -1 it was free; -2 freed, but the message was refused.
if redis.call('del', KEYS[1]) == 0 then
    return -1
end
local told = redis.pcall('publish', ARGV[1], '0')
return type(told) == 'table' and -2 or told

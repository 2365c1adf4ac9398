-- Frees a plain lock whoever holds it, and tells the waiters.
-- KEYS: the lock. ARGV: channel.
-- Reply: 1 freed; 0 it was free; 2 freed, but the message was refused.
if redis.call('del', KEYS[1]) == 0 then
    return 0
end
local told = redis.pcall('publish', ARGV[1], '0')
if type(told) == 'table' and told.err then
    return 2
end
return 1

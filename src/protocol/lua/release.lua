-- Lowers the count of a plain hold; at 0 frees the lock and tells the waiters.
-- KEYS: the lock. ARGV: holder, count to leave, channel.
-- Reply: how many heard it (0 for a partial release); -1 nothing of this hold is there; -2 freed,
-- but the message was refused.
-- The channel is no key: a user whose access list names the channel need not own a key of that name.
-- DEL comes first: it passes when the server is out of memory, and lets the rest pass.
local key, holder, left = KEYS[1], ARGV[1], ARGV[2]
if redis.call('hexists', key, holder) == 0 then
    return -1
end
if left ~= '0' then
    redis.call('hset', key, holder, left)
    return 0
end
redis.call('del', key)
local told = redis.pcall('publish', ARGV[3], '0')
return type(told) == 'table' and -2 or told

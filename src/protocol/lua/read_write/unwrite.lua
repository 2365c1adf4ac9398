-- Lowers the count of a write hold; at 0 the lock is free, or it belongs to the readers that the
-- writer was itself; hands it to the next writer if that can be.
-- KEYS: the lock. ARGV: stem, the writer's field, count to leave, channel; for a hand-over also the
-- next writer's field and its lease in ms.
-- Reply: {1} when it was handed over; how many heard of it (0 for a partial release); -1 nothing of
-- this hold is there; -2 done, but the message was refused.
local key, writer, left, channel, heir, lease = KEYS[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
if redis.call('hexists', key, writer) == 0 then
    if heir and redis.call('hexists', key, heir) == 1 then
        raise(key, lease)
        return { 1 }
    end
    return -1
end
if left ~= '0' then
    redis.call('hset', key, writer, left)
    return 0
end
-- What frees memory comes first: it passes when the server has none left, and lets the rest pass.
redis.call('hdel', key, writer)
if redis.call('hlen', key) == 1 then
    -- Waiters elsewhere sleep for the TTL that they have read: a shorter lease must be announced.
    if heir and redis.call('pttl', key) <= tonumber(lease) then
        redis.call('hset', key, heir, 1)
        redis.call('pexpire', key, lease)
        return { 1 }
    end
    redis.call('del', key)
else
    local longest = longest_of_all(key, ARGV[1])
    if longest > 0 then
        redis.call('hset', key, 'mode', 'read')
        redis.call('pexpire', key, longest)
    else
        redis.call('del', key)
    end
end
-- Also when it goes to readers: others may read now.
local told = redis.pcall('publish', channel, '1')
return type(told) == 'table' and -2 or told

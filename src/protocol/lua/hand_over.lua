-- Gives a plain lock from one holder to the next, without a message.
-- KEYS: the lock. ARGV: holder, channel, next holder, its lease in ms.
-- Reply: {1} when it was handed over; or released instead, as release.lua answers: how many heard
-- it, -2 when the message was refused; -1 when neither of the two is there.
-- Waiters elsewhere sleep for the TTL that they have read: a shorter lease must be announced.
local key, holder, heir, lease = KEYS[1], ARGV[1], ARGV[3], ARGV[4]
if redis.call('hexists', key, holder) == 0 then
    if redis.call('hexists', key, heir) == 0 then
        return -1
    end
    if redis.call('pttl', key) < tonumber(lease) then
        redis.call('pexpire', key, lease)
    end
    return { 1 }
end
if redis.call('pttl', key) > tonumber(lease) then
    redis.call('del', key)
    local told = redis.pcall('publish', ARGV[2], '0')
    return type(told) == 'table' and -2 or told
end
-- In this order: removing the last field would take the TTL with it.
redis.call('hdel', key, holder)
redis.call('hset', key, heir, 1)
redis.call('pexpire', key, lease)
return { 1 }

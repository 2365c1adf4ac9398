-- Lowers the count of a read hold; at 0 the reader is gone, and with the last one the lock.
-- KEYS: the lock. ARGV: stem, holder, count to leave, how long in ms what is left shall live, channel.
-- Reply: how many heard that the lock is free; -1 nothing of this hold is there; -2 free, but the
-- message was refused; -3 done, and somebody still holds the lock.
-- What frees memory comes first: it passes when the server has none left, and lets the rest pass.
local key, stem, holder, left, stay = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local before = redis.call('hget', key, holder)
if left == 0 then
    redis.call('hdel', key, holder)
end
-- Also when the reader is gone: who took the lock away from it has left them.
for number = math.max(topmost(stem, holder, before or 0), left + 1), left + 1, -1 do
    redis.call('del', slot(stem, holder, number))
end
if not before then
    return -1
end
if left > 0 then
    redis.call('hset', key, holder, left)
    -- Who stays may have had another slot. Raised only: a renewal may have been quicker.
    hold(slot(stem, holder, left), stay)
end
local longest = longest_of_all(key, stem)
if redis.call('hget', key, 'mode') == 'write' then
    if longest > 0 then
        raise(key, longest)
    end
    return -3
end
if longest > 0 then
    redis.call('pexpire', key, longest)
    return -3
end
redis.call('del', key)
local told = redis.pcall('publish', ARGV[5], '0')
return type(told) == 'table' and -2 or told

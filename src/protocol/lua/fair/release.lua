-- Lowers the count of a fair hold; at 0 hands the lock to the first in the queue if that is an heir,
-- else frees it and tells the first.
-- ARGV: holder, count to leave, channel; then for each heir its name, lease in ms and patience in ms.
-- Reply: {n} when the n-th heir has it; how many heard of it (0 for a partial release), or {0, how many,
-- who is first} when that is of the holder's client; -1 nothing of this hold is there; -2 freed, but a
-- message was refused.
local holder, left, channel = ARGV[1], ARGV[2], ARGV[3]
if redis.call('hexists', key, holder) == 0 then
    for at = 4, #ARGV, 3 do
        if redis.call('hexists', key, ARGV[at]) == 1 then
            if redis.call('pttl', key) < tonumber(ARGV[at + 1]) then
                redis.call('pexpire', key, ARGV[at + 1])
            end
            return { (at - 1) / 3 }
        end
    end
    return -1
end
if left ~= '0' then
    redis.call('hset', key, holder, left)
    return 0
end
local ttl = redis.call('pttl', key)
-- What frees memory comes first: it passes when the server has none left, and lets the rest pass.
redis.call('del', key)
local head = successor()
for at = 4, #ARGV, 3 do
    -- Waiters elsewhere sleep for the TTL that they have read: a shorter lease must be announced.
    if ARGV[at] == head and ttl <= tonumber(ARGV[at + 1]) then
        leave(head, ARGV[at + 2])
        redis.call('hset', key, head, 1)
        redis.call('pexpire', key, ARGV[at + 1])
        point_out(channel, tonumber(ARGV[at + 1]))
        return { (at - 1) / 3 }
    end
end
local told = announce(channel, head)
if told >= 0 and head and parts(head) and parts(head) == parts(holder) then
    return { 0, told, head }
end
return told

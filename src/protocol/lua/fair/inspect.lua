-- Reads a fair lock in one moment.
-- Reply: its PTTL; its fields and values in turn; its queue, each waiter with the ms until others may
-- pass it, or with '' when it has no such time.
local moment = now()
local waiters = {}
for _, waiter in ipairs(redis.call('lrange', queue, 0, -1)) do
    local time = time_of(waiter)
    table.insert(waiters, waiter)
    table.insert(waiters, time and whole(time - moment) or '')
end
return { redis.call('pttl', key), redis.call('hgetall', key), waiters }

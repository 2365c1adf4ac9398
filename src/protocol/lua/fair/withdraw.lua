-- Takes back what an acquisition of a fair lock did: the hold, and the place in the queue.
-- ARGV: holder, its patience in ms, channel.
-- Reply: how many heard of it; -1 when there was nothing; -2 when a message was refused.
local holder, patience, channel = ARGV[1], ARGV[2], ARGV[3]
local held = redis.call('hexists', key, holder) == 1
if held then
    redis.call('del', key)
end
local place = redis.call('lpos', queue, holder)
leave(holder, patience)
if not held and not place then
    return -1
end
-- The first may have been told that the lock is free: then that is for the next.
local ttl = redis.call('pttl', key)
if held or (place == 0 and ttl == -2) then
    return announce(channel, successor())
end
if place == 0 and ttl >= 0 then
    point_out(channel, ttl)
end
return 0

-- Takes a fair lock, re-enters it, or takes a place in its queue.
-- ARGV: lease in ms, holder, count to reach; to queue, also its patience in ms, the longest patience
-- of anybody, 1 when it had a place before, and the channel.
-- Reply: nil when held; how long to sleep in ms, as PTTL counts, when not; 'lost' when the hold to
-- re-enter is gone.
-- Runs twice with one effect: the count is absolute, the TTL is only raised, a place is kept.

-- Where one belongs that was passed. Only the first is ever passed, so it was first; but several may
-- have been, and of those of one client the numbers tell who came before it.
local function former_place(who)
    local client, number = parts(who)
    local place = 0
    for at, other in ipairs(redis.call('lrange', queue, 0, -1)) do
        local its, earlier = parts(other)
        if its and its == client and earlier < number then
            place = at
        end
    end
    return place
end

local lease, holder, count, patience = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local moment = now()
local head = first(holder, moment)
local place = patience and redis.call('lpos', queue, holder)
-- Who had a place and has none was passed by somebody who took it for dead.
local passed = patience and not place and ARGV[6] == '1' and former_place(holder)
if redis.call('exists', key) == 0 then
    if count ~= '1' then
        return 'lost'
    end
    if not head or head == holder or passed == 0 then
        if place then
            leave(holder, patience)
        end
        redis.call('hset', key, holder, count)
        local set = redis.pcall('pexpire', key, lease)
        if type(set) == 'table' then
            -- Better no lock than one without an end.
            redis.call('del', key)
            return set
        end
        if patience then
            point_out(ARGV[7], tonumber(lease))
        end
        return nil
    end
elseif redis.call('hexists', key, holder) == 1 then
    redis.call('hset', key, holder, count)
    if redis.call('pttl', key) < tonumber(lease) then
        redis.call('pexpire', key, lease)
    end
    return nil
elseif count ~= '1' then
    return 'lost'
end
local left = redis.call('pttl', key)
if not patience then
    return left
end
local fresh = not place
if passed == 0 then
    redis.call('lpush', queue, holder)
    place = 0
elseif passed then
    redis.call('linsert', queue, 'after', redis.call('lindex', queue, passed - 1), holder)
    place = passed
elseif not place then
    place = redis.call('rpush', queue, holder) - 1
end
-- Whoever enters takes its patience from all who are behind it, so there must be one for each who is
-- before; and the holder may stay as long as it is, and no time may be before that of the one ahead.
-- A lock without an end is looked after now and then: long before ten seconds.
local time = moment + (left == -1 and 10000 or math.max(0, left)) + place * tonumber(ARGV[5])
if place > 0 then
    time = math.max(time, time_of(redis.call('lindex', queue, place - 1)) or 0)
end
local set = redis.pcall('zadd', times, whole(time + tonumber(patience)), holder)
if fresh and type(set) == 'table' and set.err then
    -- Who was refused does not come back to leave.
    redis.call('lrem', queue, 0, holder)
    return set
end
if passed then
    -- Who was passed with it and is back already has reckoned without it. Of others nobody knows whether
    -- they live.
    for at, behind in ipairs(redis.call('lrange', queue, place + 1, -1)) do
        if parts(behind) == parts(holder) then
            local least = time + tonumber(patience) + at * tonumber(ARGV[5])
            redis.call('zadd', times, 'XX', 'GT', whole(least), behind)
        end
    end
end
if place == 0 or left == -1 then
    return left
end
-- A release tells the first; an end of a lease tells nobody, and then the second is the first. So all
-- look when the TTL is over, the further behind the later.
local later = 250 * place
if left >= 0 then
    return math.max(left, later)
end
-- Free, and the first has not come yet: it is on its way, or dead.
return math.max(1, math.min(later, (time_of(head) or 0) - moment))

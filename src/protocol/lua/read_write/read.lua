-- Takes a read lock, or re-enters it.
-- KEYS: the lock. ARGV: stem, lease in ms, holder, count to reach, the field of the writer that may
-- also read.
-- Reply: nil when held; the PTTL when a writer holds it; 'lost' when the hold to re-enter is gone.
-- Runs twice with one effect: the count is absolute and every TTL is only raised.
local key, stem, lease, holder, count, writer = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local mode = redis.call('hget', key, 'mode')
if not mode and redis.call('exists', key) == 1 then
    -- Another lock of this name.
    return count == '1' and redis.call('pttl', key) or 'lost'
end
if count ~= '1' then
    local before = redis.call('hget', key, holder)
    if not before or longest_of(stem, holder, before) < 0 then
        return 'lost'
    end
end
if mode and mode ~= 'read' and redis.call('hexists', key, writer) == 0 then
    return redis.call('pttl', key)
end
-- First: if it cannot be written, nothing is.
hold(slot(stem, holder, count), lease)
if not mode then
    redis.call('hset', key, 'mode', 'read')
end
redis.call('hset', key, holder, count)
raise(key, lease)
return nil

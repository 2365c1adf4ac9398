-- Takes many plain locks, or re-enters them: all or none.
-- KEYS: the locks. ARGV: lease in ms, then for each lock the holder and the count to reach.
-- Reply: nil when all are held; {n, PTTL} when another holds the n-th; {n} when the hold of the n-th
-- that was to be re-entered is gone; {n, text} when the n-th cannot be looked at.
-- All are looked at, their types too, before the first is written.
local lease = ARGV[1]
for i, key in ipairs(KEYS) do
    local holder, count = ARGV[2 * i], ARGV[2 * i + 1]
    local there = redis.pcall('hexists', key, holder)
    if type(there) == 'table' then
        return { i, there.err }
    end
    if there == 0 then
        if count ~= '1' then
            return { i }
        end
        if redis.call('exists', key) == 1 then
            return { i, redis.call('pttl', key) }
        end
    end
end
for i, key in ipairs(KEYS) do
    redis.call('hset', key, ARGV[2 * i], ARGV[2 * i + 1])
    if redis.call('pttl', key) < tonumber(lease) then
        redis.call('pexpire', key, lease)
    end
end
return nil

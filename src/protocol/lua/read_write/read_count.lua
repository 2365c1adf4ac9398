-- How often a reader holds the lock: not at all when its time is over, whatever its field says.
-- KEYS: the lock. ARGV: stem, holder. Reply: the count.
local count = redis.call('hget', KEYS[1], ARGV[2])
if not count or longest_of(ARGV[1], ARGV[2], count) < 0 then
    return 0
end
return counted(count)

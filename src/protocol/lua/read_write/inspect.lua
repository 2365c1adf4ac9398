-- Reads a read-write lock in one moment.
-- KEYS: the lock. ARGV: stem. Reply: its PTTL; its fields and values in turn; for each field how long its slots
-- live, as PTTL counts.
local fields, times = redis.call('hgetall', KEYS[1]), {}
for at = 1, #fields, 2 do
    table.insert(times, longest_of(ARGV[1], fields[at], fields[at + 1]))
end
return { redis.call('pttl', KEYS[1]), fields, times }

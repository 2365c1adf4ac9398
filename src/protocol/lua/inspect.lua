-- Reads a lock in one moment.
-- KEYS: the lock. Reply: its PTTL, and its fields and values in turn.
return { redis.call('pttl', KEYS[1]), redis.call('hgetall', KEYS[1]) }

package store

import (
	"container/list"
	"math"
	"runtime/debug"
	"sync"
)

// Cache holds decoded chunks and directory nodes within one budget of memory,
// whatever the number of files and handles. What is evicted while somebody
// uses it stays valid. A Cache may be used by several goroutines at once.
type Cache struct {
	mu     sync.Mutex
	budget int64
	used   int64
	items  map[cacheKey]*list.Element
	lru    list.List // of *cached, most recently used first
}

// cacheKey names an immutable part of a file: what stands at an offset.
type cacheKey struct {
	file identity
	off  int64
}

type cached struct {
	key   cacheKey
	value any
	size  int64 // as counted in Cache.used
	gone  bool  // evicted: its growth is no longer counted
}

// NewCache makes a cache that keeps at most the given number of bytes of
// decoded operations; 0 or less means [DefaultBudget].
func NewCache(budget int64) *Cache {
	if budget <= 0 {
		budget = DefaultBudget()
	}
	return &Cache{budget: budget, items: make(map[cacheKey]*list.Element)}
}

// sharedCache is what Options.Cache == nil means. One budget for the process
// is the point: a cache per handle would multiply it.
var sharedCache = sync.OnceValue(func() *Cache { return NewCache(0) })

// get returns what is cached under key, or else what make returns, which must
// be small: large parts are filled in later and reported with grow.
func (c *Cache) get(key cacheKey, make func() any) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.items[key]; ok {
		c.lru.MoveToFront(el)
		return el.Value.(*cached)
	}
	it := &cached{key: key, value: make()}
	c.items[key] = c.lru.PushFront(it)
	return it
}

// grow reports that it takes n bytes more, and evicts others, or even itself,
// until the budget is kept.
func (c *Cache) grow(it *cached, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if it.gone {
		return
	}
	it.size += n
	c.used += n
	for c.used > c.budget && c.lru.Len() > 0 {
		c.drop(c.lru.Back())
	}
}

// remove forgets it, so that the next reader tries again.
func (c *Cache) remove(it *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.items[it.key]; ok && el.Value == it {
		c.drop(el)
	}
}

func (c *Cache) drop(el *list.Element) {
	it := el.Value.(*cached)
	c.lru.Remove(el)
	delete(c.items, it.key)
	c.used -= it.size
	it.gone = true
}

// Used returns the number of bytes that the cache holds now.
func (c *Cache) Used() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// DefaultBudget returns a quarter of the memory that is available to the
// process: the least of what the system has free, what the control group
// still allows, and the limit set by GOMEMLIMIT. It is 256 MiB where the
// system does not say.
func DefaultBudget() int64 {
	avail := systemMemory()
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 && (avail <= 0 || limit < avail) {
		avail = limit
	}
	if avail <= 0 {
		avail = 1 << 30
	}
	return avail / 4
}

package githost

import (
	"bytes"
	"container/list"
	"io"
	"net/http"
	"sync"
)

// Cache remembers answers to reads by their ETag, least recently used first out. It never answers by itself: the host says every
// time whether what we know still holds, which is free of its primary rate limit.
type Cache struct {
	limit int // bytes of bodies and keys

	mu      sync.Mutex
	size    int
	order   *list.List // of *slot, most recent first
	entries map[string]*list.Element
}

type slot struct {
	key string
	*cached
}

// cached is one answer. It is never changed after it is stored.
type cached struct {
	etag   string
	header http.Header
	body   []byte
}

// NewCache makes a cache that holds up to limit bytes of answers.
func NewCache(limit int) *Cache {
	return &Cache{limit: limit, order: list.New(), entries: map[string]*list.Element{}}
}

func (c *Cache) get(key string) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*slot).cached
}

func (c *Cache) put(key string, value *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[key]; ok {
		c.drop(e)
	}
	added := &slot{key, value}
	if added.weight() > c.limit/4 {
		return // it would push out everything else
	}
	c.entries[key] = c.order.PushFront(added)
	c.size += added.weight()
	for c.size > c.limit {
		c.drop(c.order.Back())
	}
}

func (c *Cache) drop(e *list.Element) {
	s := c.order.Remove(e).(*slot)
	delete(c.entries, s.key)
	c.size -= s.weight()
}

// weight is what a slot counts against the limit: headers are guessed at, they do not vary much.
func (s *slot) weight() int { return len(s.key) + len(s.body) + 1024 }

// answer makes the answer to a request that the host said was not modified.
func (c *cached) answer(req *http.Request, notModified *http.Response) *http.Response {
	header := c.header.Clone()
	if date := notModified.Header.Get("Date"); date != "" {
		header.Set("Date", date)
	}
	return &http.Response{
		Status:        "200 OK",
		StatusCode:    http.StatusOK,
		Proto:         notModified.Proto,
		ProtoMajor:    notModified.ProtoMajor,
		ProtoMinor:    notModified.ProtoMinor,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(c.body)),
		ContentLength: int64(len(c.body)),
		Request:       req,
	}
}

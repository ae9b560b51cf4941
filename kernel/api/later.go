package api

import (
	"net/http"
	"sync"
	"sync/atomic"
)

// later is a handler that stands before another one in the chain, which is built before it.
type later struct {
	made atomic.Pointer[func(next http.Handler) http.Handler]
}

// set makes the handler known. What it does not serve it hands on to next.
func (l *later) set(before func(next http.Handler) http.Handler) { l.made.Store(&before) }

func (l *later) before(next http.Handler) http.Handler {
	var once sync.Once
	var with http.Handler
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		before := l.made.Load()
		if before == nil {
			next.ServeHTTP(w, req)
			return
		}
		once.Do(func() { with = (*before)(next) })
		with.ServeHTTP(w, req)
	})
}

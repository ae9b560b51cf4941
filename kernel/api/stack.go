package api

import "net/http"

// requestStack is what the deepest part of serving a request takes: conversion
// and comparison of managed fields recurse along an object.
const requestStack = 24 << 10

// deepen makes the goroutine's stack large while there is little on it.
// Serving a request on a fresh goroutine grows the stack five times otherwise,
// and each time everything below is copied and every pointer into it adjusted:
// an eighth of the processor time of a create. n is never negative: the frame
// has its size in any case, and is cleared only where it is used.
//
//go:noinline
func deepen(n int) byte {
	if n >= 0 {
		return 0
	}
	var room [requestStack]byte
	return room[uint(n)%requestStack]
}

// deepened serves on a deep stack.
func deepened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		deepen(len(req.URL.Path))
		next.ServeHTTP(w, req)
	})
}

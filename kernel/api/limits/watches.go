package limits

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// Watches bounds the watches and streams that are open.
type Watches struct {
	open   quota
	refuse Refuse
}

// NewWatches makes the two limits: of all, and of one user.
func NewWatches(all, perUser int, refuse Refuse) *Watches {
	return &Watches{open: quota{total: int64(all), perUser: int64(perUser)}, refuse: refuse}
}

// Before counts what longRunning says.
func (l *Watches) Before(next http.Handler, longRunning request.LongRunningRequestCheck) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		if !ok || !longRunning(req, info) {
			next.ServeHTTP(w, req)
			return
		}
		c := clientOf(req)
		if c.privileged {
			next.ServeHTTP(w, req)
			return
		}
		if ok, all := l.open.take(c.name, 1); !ok {
			err := tooMany("user %q has %d watches and streams open, which is the limit of a user", c.name, l.open.perUser)
			if all {
				err = tooMany("the server has %d watches and streams open, which is its limit", l.open.total)
			}
			l.refuse(w, req, err)
			return
		}
		defer l.open.give(c.name, 1)
		next.ServeHTTP(w, req)
	})
}

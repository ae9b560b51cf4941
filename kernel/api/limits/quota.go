package limits

import "sync"

// quota shares an amount among users.
type quota struct {
	total, perUser int64 // 0: no limit

	mu    sync.Mutex
	used  int64
	users map[string]int64
}

// take gives n to a user; false: the user's limit, or that of all, is reached.
// all says which.
func (q *quota) take(name string, n int64) (ok, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.perUser > 0 && q.users[name]+n > q.perUser {
		return false, false
	}
	if q.total > 0 && q.used+n > q.total {
		return false, true
	}
	if q.users == nil {
		q.users = map[string]int64{}
	}
	q.users[name] += n
	q.used += n
	return true, false
}

func (q *quota) give(name string, n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used -= n
	if left := q.users[name] - n; left > 0 {
		q.users[name] = left
	} else {
		delete(q.users, name)
	}
}

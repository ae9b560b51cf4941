package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// named are locks by name, which exist while somebody has or awaits them.
type named struct {
	mu  sync.Mutex
	all map[string]*namedLock
}

type namedLock struct {
	held  chan struct{} // has room for one
	users int           // how many hold it or wait for it
}

// lock waits for a lock until ctx ends.
func (n *named) lock(ctx context.Context, name string) (unlock func(), err error) {
	n.mu.Lock()
	l := n.all[name]
	if l == nil {
		l = &namedLock{held: make(chan struct{}, 1)}
		if n.all == nil {
			n.all = map[string]*namedLock{}
		}
		n.all[name] = l
	}
	l.users++
	n.mu.Unlock()
	leave := func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(n.all, name)
		}
	}
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// upgrade writes down, once, which volumes the pods of a former release use: it wrote down their local volumes only.
// It comes before the first claim that is mounted.
func (m *Manager) upgrade(pod *corev1.Pod) error {
	if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return claimed(&v) }) {
		return nil
	}
	m.upgrading.Lock()
	defer m.upgrading.Unlock()
	if m.upgraded {
		return nil
	}
	uids, err := m.Pods()
	if err != nil {
		return err
	}
	for _, uid := range uids {
		if err := m.upgradePod(uid); err != nil {
			return fmt.Errorf("write down the volumes that pod %s uses: %w", uid, err)
		}
	}
	m.upgraded = true
	return nil
}

func (m *Manager) upgradePod(uid types.UID) error {
	defer m.lock(uid)()
	if _, err := os.Lstat(m.usedDir(uid)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(m.PodDir(uid), "volumes", localVolumes))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) == 0 {
		return nil
	}
	next := m.usedDir(uid) + ".next" // all of them at once, also when this is cut off
	for _, e := range entries {
		if err := os.MkdirAll(filepath.Join(next, backing{local: e.Name()}.id()), 0o750); err != nil {
			return err
		}
	}
	return os.Rename(next, m.usedDir(uid))
}

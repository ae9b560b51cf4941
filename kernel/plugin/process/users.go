package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"sync"

	"pintle.dev/pintle/kernel/plugin/confinement"
	"pintle.dev/pintle/kernel/secretfile"
)

// Users is a range of user ids of which each bundle gets one for good; the group
// of the same number goes with it. Nobody else on the machine may have them.
type Users struct {
	First, Count int
	// File keeps which bundle has which; empty: nobody remembers.
	File string
}

// UserTable hands out the user ids of a range.
type UserTable struct {
	Users
	Machine confinement.Users
	mu      sync.Mutex
	given   map[string]int // nil before the file was read
}

// Configure sets the range.
func (t *UserTable) Configure(u Users) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Users != u {
		t.Users, t.given = u, nil
	}
}

// Of returns the bundle's user id; 0 when there are no users.
func (t *UserTable) Of(bundle string) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Count <= 0 {
		return 0, nil
	}
	if err := t.read(); err != nil {
		return 0, err
	}
	if uid := t.given[bundle]; uid >= t.First && uid < t.First+t.Count {
		// Another kernel on this machine may have it meanwhile.
		if free, err := t.Machine.Take(uid); err != nil || free {
			return uid, err
		}
	}
	taken := map[int]bool{}
	for _, uid := range t.given {
		taken[uid] = true
	}
	// Where a bundle is looked for first depends on the kernel too, so that two
	// of them on one machine seldom want the same.
	h := fnv.New32a()
	fmt.Fprintf(h, "%s\x00%s", t.File, bundle)
	for i := range t.Count {
		uid := t.First + (int(h.Sum32()%uint32(t.Count))+i)%t.Count
		if taken[uid] {
			continue
		}
		if free, err := t.Machine.Take(uid); err != nil {
			return 0, err
		} else if !free {
			continue
		}
		t.given[bundle] = uid
		return uid, t.write()
	}
	return 0, fmt.Errorf("plugin bundle %s: all %d user ids of plugins.uidRange are given to other bundles, or to other kernels on this machine; make the range larger", bundle, t.Count)
}

func (t *UserTable) read() error {
	if t.given != nil {
		return nil
	}
	given := map[string]int{}
	if t.File == "" {
		t.given = given
		return nil
	}
	data, err := os.ReadFile(t.File)
	if err == nil {
		err = json.Unmarshal(data, &given)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("user ids of plugins: %w; remove the file to give them out anew", err)
	}
	t.given = given
	return nil
}

func (t *UserTable) write() error {
	if t.File == "" {
		return nil
	}
	data, err := json.MarshalIndent(t.given, "", "  ")
	if err == nil {
		err = secretfile.Write(t.File, append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("user ids of plugins: %w", err)
	}
	return nil
}

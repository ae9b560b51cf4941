package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// beside is another pod with the same claim, and a group of its own.
func beside(t *testing.T, m *Manager, p *corev1.Pod, name string) *corev1.Pod {
	t.Helper()
	other := p.DeepCopy()
	other.UID, other.Name = types.UID(name), name
	other.Spec.SecurityContext.FSGroup = ptr.To[int64](group + 1)
	t.Cleanup(func() {
		if err := m.Unmount(other.UID); err != nil {
			t.Error(err)
		}
	})
	return other
}

// key is a file of a volume that a container took from the volume's group.
func key(t *testing.T, path string) string {
	t.Helper()
	file := filepath.Join(path, "key")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chown(file, 0, 7)); err != nil {
		t.Fatal(err)
	}
	return file
}

// Of pods that mount a volume at once, one gives it to its group; another does when that one did not come to its end.
func TestGroupOfPodsAtOnce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving files away needs root")
	}
	cut := errors.New("cut off")
	for name, tt := range map[string]struct {
		first error // what giving ends with
		walks int
		group uint32
	}{
		"the first gives it": {nil, 1, group},
		"the first is cut":   {cut, 2, group + 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, first, path, _ := grouped(t)
				second := beside(t, m, first, "second")
				file := key(t, path)
				walks, goOn := 0, make(chan struct{})
				m.giveTree = func(ctx context.Context, dir string, gid int64, onMismatch bool, allowed func(string) error) (leftovers, error) {
					walks++
					if walks == 1 && tt.first != nil {
						<-goOn
						return leftovers{}, tt.first
					}
					<-goOn
					return giveTree(ctx, dir, gid, onMismatch, allowed)
				}
				ends := make([]error, 2)
				mount := func(i int, p *corev1.Pod) { ends[i] = m.Mount(t.Context(), p) }
				go mount(0, first)
				synctest.Wait()
				go mount(1, second)
				synctest.Wait()
				if walks != 1 {
					t.Errorf("%d pods give the volume at once", walks)
				}
				over, cancel := context.WithCancel(t.Context())
				cancel()
				third := beside(t, m, first, "third")
				if err := m.Mount(over, third); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "another pod of this node is given it") {
					t.Errorf("a third whose time is over: %v", err)
				}
				close(goOn)
				synctest.Wait()
				if !errors.Is(ends[0], tt.first) || ends[1] != nil || walks != tt.walks {
					t.Errorf("%v, %d walks", ends, walks)
				}
				has(t, file, tt.group, 0o660)
				if n := len(m.giving.all); n > 0 {
					t.Errorf("%d locks are left", n)
				}
			})
		})
	}
}

// The first start after an upgrade knows which volumes the pods of the former release use.
func TestGroupAfterAnUpgrade(t *testing.T) {
	m, first, path, _ := grouped(t)
	if err := m.Mount(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	// The former release wrote down the local volumes only. Its pod may not be mounted again for long.
	if err := os.RemoveAll(m.usedDir(first.UID)); err != nil {
		t.Fatal(err)
	}
	file := key(t, path)
	again := New(m.root, m.deps)
	// Also when it is cut off once.
	if err := os.MkdirAll(m.usedDir(first.UID)+".next", 0o750); err != nil {
		t.Fatal(err)
	}
	second := beside(t, again, first, "second")
	for _, p := range []*corev1.Pod{second, first} {
		if err := again.Mount(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	has(t, file, 7, 0o600)
}

// A pod that was being given a volume when the agent ended does not use it yet.
func TestGroupAfterAWalkCutOff(t *testing.T) {
	m, first, path, _ := grouped(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	file := key(t, path)
	m.giveTree = func(context.Context, string, int64, bool, func(string) error) (leftovers, error) {
		return leftovers{}, over.Err()
	}
	if err := m.Mount(t.Context(), first); !errors.Is(err, context.Canceled) {
		t.Fatalf("cut off: %v", err)
	}
	again := New(m.root, m.deps)
	if err := again.Mount(t.Context(), beside(t, again, first, "second")); err != nil {
		t.Fatal(err)
	}
	has(t, file, group+1, 0o660)
}

package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri"
)

// Period is how often containers are collected (KLT-33).
const Period = time.Minute

// Policy are the three factors of CGC-1; a negative limit is none (CGC-10).
type Policy struct {
	MinAge          time.Duration
	MaxPerContainer int // dead containers kept a (pod, container name)
	MaxContainers   int // dead containers kept over all
}

// Collector removes dead containers.
type Collector struct {
	mu     sync.Mutex
	policy Policy // of the next pass
	client *cri.Client
	logDir string
	// exists tells that the agent knows the pod.
	exists func(uid types.UID) bool
	logger *slog.Logger
	now    func() time.Time
}

// New makes a collector; logDir holds pods/.
func New(policy Policy, client *cri.Client, logDir string, exists func(uid types.UID) bool, logger *slog.Logger) *Collector {
	return &Collector{policy: policy, client: client, logDir: logDir, exists: exists, logger: logger, now: time.Now}
}

type dead struct {
	id, name string
	created  int64
}

type unitKey struct {
	uid  types.UID
	name string
}

// SetPolicy changes the policy from the next pass on.
func (c *Collector) SetPolicy(policy Policy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.policy = policy
}

// CollectOver removes the dead containers of pods that are over, with their logs, whatever the policy: the node's disk
// is nearly full.
func (c *Collector) CollectOver(ctx context.Context, over func(uid types.UID) bool) error {
	pods, err := c.client.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for uid, p := range pods {
		if !over(uid) && c.exists(uid) {
			continue
		}
		for _, ct := range p.Containers {
			if ct.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
				errs = append(errs, c.remove(ctx, dead{id: ct.Id}))
			}
		}
	}
	return errors.Join(errs...)
}

func (c *Collector) current() Policy {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.policy
}

// Collect makes one pass.
func (c *Collector) Collect(ctx context.Context) error {
	pods, err := c.client.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range c.choose(pods) {
		errs = append(errs, c.remove(ctx, d))
	}
	errs = append(errs, c.sandboxes(ctx, pods), c.logs())
	return errors.Join(errs...)
}

// choose picks the containers to remove.
func (c *Collector) choose(pods map[types.UID]*cri.Pod) []dead {
	var out []dead
	units := map[unitKey][]dead{} // newest first
	for uid, p := range pods {
		for _, ct := range p.Containers {
			if ct.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
				continue
			}
			if c.now().Sub(time.Unix(0, ct.CreatedAt)) < c.current().MinAge {
				continue // CGC-4
			}
			d := dead{id: ct.Id, name: ct.Labels[cri.LabelContainerName], created: ct.CreatedAt}
			if !c.exists(uid) || d.name == "" {
				out = append(out, d) // CGC-7
				continue
			}
			units[unitKey{uid, d.name}] = append(units[unitKey{uid, d.name}], d)
		}
	}
	keys := make([]unitKey, 0, len(units))
	for k := range units {
		slices.SortFunc(units[k], func(a, b dead) int { return cmp.Compare(b.created, a.created) })
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b unitKey) int { return cmp.Or(cmp.Compare(a.uid, b.uid), cmp.Compare(a.name, b.name)) })
	trim := func(limit int) {
		for _, k := range keys {
			if u := units[k]; len(u) > limit {
				out = append(out, u[limit:]...)
				units[k] = u[:limit]
			}
		}
	}
	if c.current().MaxPerContainer >= 0 {
		trim(c.current().MaxPerContainer) // CGC-8
	}
	total := 0
	for _, u := range units {
		total += len(u)
	}
	if c.current().MaxContainers >= 0 && total > c.current().MaxContainers { // CGC-9
		trim(max(1, c.current().MaxContainers/len(keys)))
		var left []dead
		for _, k := range keys {
			left = append(left, units[k]...)
		}
		if over := len(left) - c.current().MaxContainers; over > 0 {
			slices.SortFunc(left, func(a, b dead) int { return cmp.Compare(a.created, b.created) })
			out = append(out, left[:over]...)
		}
	}
	return out
}

func (c *Collector) remove(ctx context.Context, d dead) error {
	var logs string
	st, err := c.client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: d.id})
	if err == nil && st.Status != nil {
		if st.Status.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			return nil // came to life since it was listed
		}
		logs = st.Status.LogPath
	}
	if _, err := c.client.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: d.id}); err != nil && !cri.IsNotFound(err) {
		return fmt.Errorf("remove container %s: %w", d.id, err)
	}
	if logs != "" && strings.HasPrefix(logs, c.logDir+string(filepath.Separator)) {
		matches, _ := filepath.Glob(logs + "*") // the log and its rotations
		for _, file := range matches {
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("remove log of container %s: %w", d.id, err)
			}
		}
	}
	return nil
}

// sandboxes removes those that are not ready and hold no container, but for the newest of a pod that exists.
func (c *Collector) sandboxes(ctx context.Context, pods map[types.UID]*cri.Pod) error {
	var errs []error
	for uid, p := range pods {
		used := map[string]bool{}
		for _, ct := range p.Containers {
			used[ct.PodSandboxId] = true
		}
		for i, s := range p.Sandboxes {
			if s.State == runtimeapi.PodSandboxState_SANDBOX_READY || used[s.Id] || (i == 0 && c.exists(uid)) {
				continue
			}
			if c.now().Sub(time.Unix(0, s.CreatedAt)) < c.current().MinAge {
				continue
			}
			if _, err := c.client.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: s.Id}); err != nil && !cri.IsNotFound(err) {
				errs = append(errs, fmt.Errorf("stop sandbox %s: %w", s.Id, err))
				continue
			}
			if _, err := c.client.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.Id}); err != nil && !cri.IsNotFound(err) {
				errs = append(errs, fmt.Errorf("remove sandbox %s: %w", s.Id, err))
			}
		}
	}
	return errors.Join(errs...)
}

// logs removes log directories of pods that are gone: <ns>_<name>_<uid>.
func (c *Collector) logs() error {
	dir := filepath.Join(c.logDir, "pods")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list log directories: %w", err)
	}
	var errs []error
	for _, e := range entries {
		parts := strings.Split(e.Name(), "_")
		if len(parts) != 3 || c.exists(types.UID(parts[2])) {
			continue
		}
		errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return errors.Join(errs...)
}

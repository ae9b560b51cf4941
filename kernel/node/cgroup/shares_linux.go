package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/node/container"
)

// Cgroups that hold pods: guaranteed ones stand directly below kubepods.
const (
	kubepods   = "kubepods"
	guaranteed = ""
	burstable  = "burstable"
	bestEffort = "besteffort"
)

// Bounds of CPU shares (v1) and weights (v2).
const (
	minShares = 2
	maxShares = 262144
	maxWeight = 10000
)

func class(pod *corev1.Pod) string {
	switch container.QOS(pod) {
	case corev1.PodQOSBurstable:
		return burstable
	case corev1.PodQOSBestEffort:
		return bestEffort
	}
	return guaranteed
}

// weight turns shares into a weight linearly, as the kubelet does for the cgroups that are its own; shares turns it
// back, rounding up so that the weight stays the same. runc converts those of containers by a curve; they are never
// siblings of these.
func weight(shares int64) int64 { return 1 + (shares-minShares)*(maxWeight-1)/(maxShares-minShares) }

func shares(weight int64) int64 {
	return ((weight-1)*(maxShares-minShares)+maxWeight-2)/(maxWeight-1) + minShares
}

func (m *Manager) setShares(p string, n int64) error {
	if m.v2 != "" {
		return write(filepath.Join(m.v2, p), "cpu.weight", strconv.FormatInt(weight(n), 10))
	}
	if mount := m.v1["cpu"]; mount != "" {
		return write(filepath.Join(mount, p), "cpu.shares", strconv.FormatInt(n, 10))
	}
	return nil
}

// weigh gives a class its shares; a class without pods has no cgroup and gets none. The caller holds mu.
func (m *Manager) weigh(class string) error {
	p := filepath.Join(m.root, kubepods, class)
	switch class {
	case bestEffort:
		return m.setShares(p, minShares)
	case burstable:
		total, err := m.sum(p)
		if err != nil {
			return fmt.Errorf("weigh cgroup %s: %w", p, err)
		}
		if total == 0 {
			return nil
		}
		return m.setShares(p, min(max(total, minShares), maxShares))
	}
	return nil
}

// sum adds up the shares of the pods of a class.
func (m *Manager) sum(p string) (int64, error) {
	mount, file, read := m.v1["cpu"], "cpu.shares", func(n int64) int64 { return n }
	if m.v2 != "" {
		mount, file, read = m.v2, "cpu.weight", shares
	}
	if mount == "" {
		return 0, nil
	}
	entries, err := os.ReadDir(filepath.Join(mount, p))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	var total int64
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), "pod") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(mount, p, e.Name(), file))
		if err != nil {
			continue // the pod is just going, or the controller is not there
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s of %s: %w", file, e.Name(), err)
		}
		total += read(n)
	}
	return total, nil
}

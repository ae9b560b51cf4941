package eviction

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Signal is something of which there has to be some left.
type Signal string

// The kubelet's signals that are measured here.
const (
	MemoryAvailable  Signal = "memory.available"
	NodeFsAvailable  Signal = "nodefs.available"
	NodeFsInodes     Signal = "nodefs.inodesFree"
	ImageFsAvailable Signal = "imagefs.available"
	ImageFsInodes    Signal = "imagefs.inodesFree"
	PIDAvailable     Signal = "pid.available"
	// allocatableMemory is what the cgroup of all pods has left; its threshold is that of memory.available.
	allocatableMemory Signal = "allocatableMemory.available"
)

// Threshold is the least of a signal that has to be left: an amount, or a share of the capacity.
type Threshold struct {
	Signal Signal
	Amount resource.Quantity
	Share  float64 // in place of Amount, from 0 to 1; 0: none
}

var signals = []Signal{MemoryAvailable, NodeFsAvailable, NodeFsInodes, ImageFsAvailable, ImageFsInodes, PIDAvailable}

// ParseThresholds reads them as evictionHard has them; a threshold of 0 is left out.
func ParseThresholds(texts map[string]string) ([]Threshold, error) {
	var out []Threshold
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text := texts[name]
		t := Threshold{Signal: Signal(name)}
		if !slices.Contains(signals, t.Signal) {
			return nil, fmt.Errorf("eviction threshold %s: no such signal; known: %v", name, signals)
		}
		if percent, ok := strings.CutSuffix(text, "%"); ok {
			p, err := strconv.ParseFloat(percent, 64)
			if err != nil || !(p >= 0 && p <= 100) {
				return nil, fmt.Errorf("eviction threshold %s: %q is not a percentage from 0%% to 100%%", name, text)
			}
			if t.Share = p / 100; p == 0 {
				continue
			}
		} else {
			q, err := resource.ParseQuantity(text)
			if err != nil || q.Sign() < 0 {
				return nil, fmt.Errorf("eviction threshold %s: %q is not an amount such as 100Mi", name, text)
			}
			if t.Amount = q; q.IsZero() {
				continue
			}
		}
		out = append(out, t)
	}
	return out, nil
}

// Of is the least that has to be left of a capacity.
func (t Threshold) Of(capacity int64) int64 {
	if t.Share > 0 {
		return int64(float64(capacity) * t.Share)
	}
	return t.Amount.Value()
}

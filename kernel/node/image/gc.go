package image

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri"
)

// Period is how often images are collected (KLT-33).
const Period = 5 * time.Minute

// GCPolicy are the three factors of IGC-1.
type GCPolicy struct {
	High, Low int // percent of the image file system
	MinAge    time.Duration
}

// FS is the image file system in bytes.
type FS struct{ Capacity, Used int64 }

// Collector removes images that are long unused when the file system fills up.
type Collector struct {
	client *cri.Client
	fs     func(ctx context.Context) (FS, error)
	// nodeEvent records an event on the Node.
	nodeEvent func(eventType, reason, message string)
	logger    *slog.Logger
	now       func() time.Time
	// Mounted lists the images that volumes of pods show, by reference; nil: none.
	Mounted func() []string

	mu      sync.Mutex
	policy  GCPolicy
	records map[string]*record // by image id
	images  []*runtimeapi.Image
}

type record struct {
	id                 string
	size               int64
	detected, lastUsed time.Time
	pinned             bool
}

// NewCollector makes a collector; fs measures the image file system.
func NewCollector(policy GCPolicy, client *cri.Client, fs func(ctx context.Context) (FS, error), nodeEvent func(eventType, reason, message string), logger *slog.Logger) *Collector {
	return &Collector{policy: policy, client: client, fs: fs, nodeEvent: nodeEvent, logger: logger, now: time.Now, records: map[string]*record{}}
}

// SetPolicy changes the policy from the next pass on.
func (c *Collector) SetPolicy(policy GCPolicy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.policy = policy
}

// Images are those of the last scan, the largest first (NOD-11).
func (c *Collector) Images() []*runtimeapi.Image {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.images
}

// Scan brings the records up to date (IGC-6): first seen, last used, size; what is gone is dropped. An image that a
// container uses was last used at mark.
func (c *Collector) Scan(ctx context.Context, mark time.Time) error {
	list, err := c.client.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	containers, err := c.client.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	used := sets.New[string]()
	for _, ct := range containers.Containers {
		used.Insert(ct.ImageRef, ct.ImageId)
		if ct.Image != nil {
			used.Insert(ct.Image.Image)
		}
	}
	if c.Mounted != nil {
		for _, ref := range c.Mounted() {
			used.Insert(ref)
			if named, err := reference.ParseNormalizedNamed(ref); err == nil {
				used.Insert(reference.TagNameOnly(named).String())
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	current := sets.New[string]()
	for _, img := range list.Images {
		current.Insert(img.Id)
		r := c.records[img.Id]
		if r == nil {
			r = &record{id: img.Id, detected: mark}
			c.records[img.Id] = r
		}
		r.size, r.pinned = int64(img.Size), img.Pinned
		if used.Has(img.Id) || used.HasAny(img.RepoDigests...) || used.HasAny(img.RepoTags...) {
			r.lastUsed = mark
		}
	}
	for id := range c.records {
		if !current.Has(id) {
			delete(c.records, id)
		}
	}
	c.images = slices.Clone(list.Images)
	slices.SortStableFunc(c.images, func(a, b *runtimeapi.Image) int { return cmp.Compare(b.Size, a.Size) })
	return nil
}

// Collect runs one round (IGC-2 … IGC-10).
func (c *Collector) Collect(ctx context.Context) error {
	fs, err := c.fs(ctx)
	if err != nil {
		return fmt.Errorf("measure image file system: %w", err)
	}
	if fs.Capacity == 0 {
		c.nodeEvent(corev1.EventTypeWarning, "InvalidDiskCapacity", "invalid capacity 0 on image filesystem")
		return fmt.Errorf("invalid capacity 0 on image filesystem")
	}
	mark := c.now()
	if err := c.Scan(ctx, mark); err != nil {
		return err
	}
	c.mu.Lock()
	policy := c.policy
	c.mu.Unlock()
	percent := fs.Used * 100 / fs.Capacity
	if policy.High >= 100 || percent < int64(policy.High) {
		return nil
	}
	target := fs.Used - int64(policy.Low)*fs.Capacity/100
	c.logger.Info("image file system is filling up: removing unused images", "used_percent", percent, "bytes_to_free", target)
	freed := c.free(ctx, target, mark)
	if freed < target {
		message := fmt.Sprintf("Failed to garbage collect required amount of images. Attempted to free %d bytes, but only found %d bytes eligible to free.", target, freed)
		c.nodeEvent(corev1.EventTypeWarning, "FreeDiskSpaceFailed", message)
		return fmt.Errorf("image garbage collection: wanted to free %d bytes, freed %d", target, freed)
	}
	return nil
}

// RemoveUnused removes all images that are long enough here and that no container uses.
func (c *Collector) RemoveUnused(ctx context.Context) error {
	mark := c.now()
	if err := c.Scan(ctx, mark); err != nil {
		return err
	}
	c.free(ctx, math.MaxInt64, mark)
	return nil
}

func (c *Collector) free(ctx context.Context, target int64, mark time.Time) int64 {
	c.mu.Lock()
	minAge := c.policy.MinAge
	order := make([]*record, 0, len(c.records))
	for _, r := range c.records {
		order = append(order, r)
	}
	c.mu.Unlock()
	slices.SortFunc(order, func(a, b *record) int {
		return cmp.Or(a.lastUsed.Compare(b.lastUsed), a.detected.Compare(b.detected), cmp.Compare(a.id, b.id))
	})
	var freed int64
	for _, r := range order {
		if freed >= target {
			break
		}
		if r.pinned || !r.lastUsed.Before(mark) || mark.Sub(r.detected) < minAge {
			continue
		}
		if _, err := c.client.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: r.id}}); err != nil {
			c.logger.Warn("could not remove image", "image", r.id, "err", err)
			continue
		}
		freed += r.size
		c.mu.Lock()
		delete(c.records, r.id)
		c.mu.Unlock()
	}
	return freed
}

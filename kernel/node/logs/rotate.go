package logs

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri"
)

// Period is how often logs are looked at.
const Period = 10 * time.Second

const (
	stampFormat = "20060102-150405"
	compressed  = ".gz"
	temporary   = ".tmp"
)

// Rotator keeps container logs within size and number.
type Rotator struct {
	mu       sync.Mutex // guards the limits
	maxSize  int64      // bytes
	maxFiles int        // the current one included, 2 or more
	client   *cri.Client
	logger   *slog.Logger
	now      func() time.Time
}

// NewRotator makes a rotator.
func NewRotator(maxSize int64, maxFiles int, client *cri.Client, logger *slog.Logger) *Rotator {
	return &Rotator{maxSize: maxSize, maxFiles: maxFiles, client: client, logger: logger, now: time.Now}
}

// SetLimits changes size and number from the next look on.
func (r *Rotator) SetLimits(maxSize int64, maxFiles int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.maxSize, r.maxFiles = maxSize, maxFiles
}

func (r *Rotator) limits() (maxSize int64, maxFiles int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.maxSize, r.maxFiles
}

// Rotate looks at the log of each running container once.
func (r *Rotator) Rotate(ctx context.Context) error {
	list, err := r.client.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}}})
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	var errs []error
	for _, ct := range list.Containers {
		if ct.Labels[cri.LabelPodUID] == "" {
			continue
		}
		st, err := r.client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: ct.Id})
		if err != nil || st.Status == nil || st.Status.LogPath == "" {
			continue
		}
		errs = append(errs, r.rotate(ctx, ct.Id, st.Status.LogPath))
	}
	return errors.Join(errs...)
}

func (r *Rotator) rotate(ctx context.Context, id, log string) error {
	info, err := os.Stat(log)
	if errors.Is(err, os.ErrNotExist) {
		// A rotation before did not come to its end: the runtime writes to the renamed file.
		if _, err := r.client.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: id}); err != nil {
			return fmt.Errorf("reopen log of container %s: %w", id, err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if maxSize, _ := r.limits(); info.Size() < maxSize {
		return nil
	}
	if err := r.tidy(log); err != nil {
		return fmt.Errorf("rotate %s: %w", log, err)
	}
	rotated := log + "." + r.now().Format(stampFormat)
	if err := os.Rename(log, rotated); err != nil {
		return fmt.Errorf("rotate %s: %w", log, err)
	}
	if _, err := r.client.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: id}); err != nil {
		// Put it back, or the log would seem lost until the next pass.
		if back := os.Rename(rotated, log); back != nil {
			return errors.Join(err, back)
		}
		return fmt.Errorf("reopen log of container %s: %w", id, err)
	}
	return nil
}

// tidy removes leftovers and the oldest rotations, and compresses the others, so that with the current log and the
// rotation about to be made there are at most maxFiles.
func (r *Rotator) tidy(log string) error {
	all, err := filepath.Glob(log + ".*")
	if err != nil {
		return err
	}
	var rotations []string
	for _, f := range all {
		if strings.HasSuffix(f, temporary) {
			_ = os.Remove(f)
			continue
		}
		rotations = append(rotations, f)
	}
	slices.Sort(rotations) // by time
	_, maxFiles := r.limits()
	keep := maxFiles - 2
	for len(rotations) > keep {
		if err := os.Remove(rotations[0]); err != nil {
			return err
		}
		rotations = rotations[1:]
	}
	for _, f := range rotations {
		if !strings.HasSuffix(f, compressed) {
			if err := compress(f); err != nil {
				return err
			}
		}
	}
	return nil
}

func compress(file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	tmp := file + temporary
	out, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	zip := gzip.NewWriter(out)
	if _, err = io.Copy(zip, in); err == nil {
		err = zip.Close()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, file+compressed); err != nil {
		return err
	}
	return os.Remove(file)
}

package volume

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"pintle.dev/pintle/kernel/node/container"
)

// isHugePages tells the media HugePages and HugePages-<size>.
func isHugePages(medium corev1.StorageMedium) bool {
	return medium == corev1.StorageMediumHugePages || strings.HasPrefix(string(medium), string(corev1.StorageMediumHugePagesPrefix))
}

// hugePageSize is the size in bytes of the huge pages of a medium: the one that it names, or the only one that the pod
// asks for.
func hugePageSize(pod *corev1.Pod, medium corev1.StorageMedium) (int64, error) {
	asked := map[int64]bool{}
	for c := range container.All(pod) {
		for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			for name, amount := range list {
				text, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
				if !ok || amount.IsZero() {
					continue
				}
				size, err := resource.ParseQuantity(text)
				if err != nil {
					return 0, fmt.Errorf("resource %s: %w", name, err)
				}
				asked[size.Value()] = true
			}
		}
	}
	if medium != corev1.StorageMediumHugePages {
		size, err := resource.ParseQuantity(strings.TrimPrefix(string(medium), string(corev1.StorageMediumHugePagesPrefix)))
		if err != nil || size.Sign() <= 0 {
			return 0, fmt.Errorf("storage medium %q names no size of huge pages", medium)
		}
		if !asked[size.Value()] {
			return 0, fmt.Errorf("storage medium %q: no container asks for huge pages of that size", medium)
		}
		return size.Value(), nil
	}
	if len(asked) != 1 {
		return 0, fmt.Errorf("storage medium %q: the containers ask for huge pages of %d sizes, want one; name it, as in HugePages-2Mi", medium, len(asked))
	}
	for size := range asked {
		return size, nil
	}
	return 0, nil
}

// hugePagesDir makes dir a file system of huge pages.
func (m *Manager) hugePagesDir(pod *corev1.Pod, medium corev1.StorageMedium, dir string) error {
	size, err := hugePageSize(pod, medium)
	if err != nil {
		return err
	}
	if !m.root0 {
		return fmt.Errorf("storage medium %q: it takes root to mount huge pages", medium)
	}
	if err := makeDir(dir, 0o777); err != nil {
		return err
	}
	mounted, err := isMount(dir)
	if err != nil || mounted {
		return err
	}
	if err := unix.Mount("hugetlbfs", dir, "hugetlbfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("pagesize=%d,mode=0777", size)); err != nil {
		return fmt.Errorf("mount huge pages of %d bytes on %s: %w", size, dir, err)
	}
	return nil
}

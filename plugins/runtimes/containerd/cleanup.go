package containerd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// removeSandboxes stops and removes every pod sandbox with its containers, and
// with them their shims, mounts, namespaces and addresses.
func removeSandboxes(ctx context.Context, socket string) error {
	conn, err := dial(socket)
	if err != nil {
		return fmt.Errorf("remove sandboxes: %w", err)
	}
	defer conn.Close()
	cri := runtimev1.NewRuntimeServiceClient(conn)
	list, err := cri.ListPodSandbox(ctx, &runtimev1.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("list sandboxes: %w", err)
	}
	var errs []error
	for _, s := range list.Items {
		if _, err := cri.StopPodSandbox(ctx, &runtimev1.StopPodSandboxRequest{PodSandboxId: s.Id}); err != nil {
			errs = append(errs, fmt.Errorf("stop sandbox of pod %s/%s: %w", s.Metadata.Namespace, s.Metadata.Name, err))
			continue
		}
		if _, err := cri.RemovePodSandbox(ctx, &runtimev1.RemovePodSandboxRequest{PodSandboxId: s.Id}); err != nil {
			errs = append(errs, fmt.Errorf("remove sandbox of pod %s/%s: %w", s.Metadata.Namespace, s.Metadata.Name, err))
		}
	}
	return errors.Join(errs...)
}

// removeBridge deletes the network bridge. One that has ports still, or is
// none of ours, is left alone.
func removeBridge(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove bridge %s: %w", name, err)
	}
	if link.Type() != "bridge" {
		return nil
	}
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("remove bridge %s: %w", name, err)
	}
	for _, l := range links {
		if l.Attrs().MasterIndex == link.Attrs().Index {
			return fmt.Errorf("remove bridge %s: interface %s is still attached", name, l.Attrs().Name)
		}
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("remove bridge %s: %w", name, err)
	}
	return nil
}

// unmountBelow unmounts whatever is mounted below a folder, deepest first.
func unmountBelow(dir string) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	defer f.Close()
	var points []string
	for scan := bufio.NewScanner(f); scan.Scan(); {
		fields := strings.Fields(scan.Text())
		if len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			points = append(points, fields[4])
		}
	}
	var errs []error
	for _, p := range slices.Backward(points) {
		if err := syscall.Unmount(p, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}

// removeAll removes a folder, again for a moment when something in it is busy.
func removeAll(ctx context.Context, dir string) error {
	for {
		err := os.RemoveAll(dir)
		if err == nil || !errors.Is(err, syscall.EBUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// snapshot is what a network holds.
type snapshot struct {
	links []string
	rules []string // as iptables-save prints them, without counters and comments
	// tables are those of nftables, but for the ones that the iptables tools keep.
	tables []string
	routes []string // but for the kernel's own
}

func takeSnapshot(n *Network) (snapshot, error) {
	var s snapshot
	if n == nil {
		return s, nil // others change the machine's own network meanwhile
	}
	err := n.Do(func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return fmt.Errorf("list interfaces: %w", err)
		}
		for _, l := range links {
			s.links = append(s.links, l.Attrs().Name)
		}
		if s.tables, err = tables(); err != nil {
			return err
		}
		routes, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
		if err != nil {
			return fmt.Errorf("list routes: %w", err)
		}
		for _, r := range routes {
			if r.Protocol != unix.RTPROT_KERNEL {
				s.routes = append(s.routes, fmt.Sprintf("%s via %s of protocol %d", r.Dst, r.Gw, r.Protocol))
			}
		}
		save, err := exec.LookPath("iptables-save")
		if err != nil {
			return nil // no tool, no rule
		}
		out, err := exec.Command(save).Output()
		if err != nil {
			return fmt.Errorf("list rules: %w", err)
		}
		for line := range strings.Lines(string(out)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "-A") || strings.HasPrefix(line, ":") && strings.Contains(line, " - ") {
				s.rules = append(s.rules, line)
			}
		}
		return nil
	})
	return s, err
}

// tables are those of nftables in this network; none where the kernel has no nftables.
func tables() ([]string, error) {
	c, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("list tables of nftables: %w", err)
	}
	found, err := c.ListTables()
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EPROTONOSUPPORT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list tables of nftables: %w", err)
	}
	var names []string
	for _, t := range found {
		if !slices.Contains([]string{"filter", "nat", "mangle", "raw", "security"}, t.Name) {
			names = append(names, t.Name)
		}
	}
	return names, nil
}

// leftovers names what a stopped cluster has not taken away.
func (c *Cluster) leftovers(podUIDs []string) []string {
	var left []string
	for _, pid := range c.processes() {
		left = append(left, "process "+describe(pid))
	}
	for _, m := range c.mounts() {
		left = append(left, "mount "+m)
	}
	now, err := takeSnapshot(c.Network)
	if err != nil {
		left = append(left, err.Error())
	}
	for _, l := range now.links {
		if !slices.Contains(c.before.links, l) {
			left = append(left, "interface "+l)
		}
	}
	for _, r := range now.rules {
		if !slices.Contains(c.before.rules, r) {
			left = append(left, "rule "+r)
		}
	}
	for _, name := range now.tables {
		if !slices.Contains(c.before.tables, name) {
			left = append(left, "table "+name)
		}
	}
	for _, r := range now.routes {
		if !slices.Contains(c.before.routes, r) {
			left = append(left, "route "+r)
		}
	}
	for _, g := range Cgroups(podUIDs) {
		left = append(left, "cgroup "+g)
	}
	for _, dir := range c.shared() {
		left = append(left, "folder "+dir)
	}
	return append(left, c.sockets()...)
}

// processes are those in the kernel's session, in its network, of its plugins, or
// with its data directory among their arguments or below their mounts.
func (c *Cluster) processes() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var network string
	_ = c.Network.Do(func() error {
		network, _ = os.Readlink("/proc/thread-self/ns/net")
		return nil
	})
	if c.Network == nil || network == "" { // or is closed
		network = "none"
	}
	session := c.session()
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == 1 || pid == os.Getpid() || c.Etcd != nil && pid == c.Etcd.cmd.Process.Pid {
			continue
		}
		dir := filepath.Join("/proc", e.Name())
		its, alive := sessionOf(pid)
		if !alive {
			continue
		}
		net, _ := os.Readlink(filepath.Join(dir, "ns/net"))
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if its == session || net == network || bytes.Contains(args, []byte(c.Data+"/")) || behindWalls(pid, c.Data) || c.lives(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// session is the kernel's, by its number; none when another process has the number of
// the kernel, which has ended: a number is free again when nothing of its session is left.
func (c *Cluster) session() int {
	const none = -1
	select {
	case <-c.exited:
		if _, alive := sessionOf(c.Pid()); alive {
			return none
		}
	default:
	}
	return c.Pid()
}

// lives reports whether a process has files of the data directory as its own, as a
// container has its root. A process that has the folder's mounts where they are for
// everybody is not meant: each new mount namespace of the machine begins with them.
func (c *Cluster) lives(pid int) bool {
	info, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	return mountsFrom(string(info), c.Data)
}

func mountsFrom(mountinfo, dir string) bool {
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.Contains(line, dir+"/") && !strings.HasPrefix(fields[4], dir+"/") {
			return true
		}
	}
	return false
}

func describe(pid int) string {
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return fmt.Sprintf("%d %s", pid, bytes.TrimSpace(bytes.ReplaceAll(args, []byte{0}, []byte{' '})))
}

// mounts are those below the data directory.
func (c *Cluster) mounts() []string {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var points []string
	for line := range strings.Lines(string(info)) {
		if fields := strings.Fields(line); len(fields) > 4 && (strings.HasPrefix(fields[4], c.Data+"/") || fields[4] == c.Data) {
			points = append(points, fields[4])
		}
	}
	return points
}

// podUIDs are the pods that the cluster has, or those of the kernel's node where others
// have nodes too; nil when it does not answer.
func (c *Cluster) podUIDs() []string {
	client, _, err := c.Client()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var o metav1.ListOptions
	if c.Node != "" {
		o.FieldSelector = "spec.nodeName=" + c.Node
	}
	pods, err := client.CoreV1().Pods("").List(ctx, o)
	if err != nil {
		return nil
	}
	var uids []string
	for _, p := range pods.Items {
		uids = append(uids, string(p.UID))
	}
	return uids
}

// Cgroups are those of pods, in every hierarchy of the machine.
func Cgroups(podUIDs []string) []string {
	var found []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		for _, uid := range podUIDs {
			if strings.Contains(d.Name(), uid) || strings.Contains(d.Name(), strings.ReplaceAll(uid, "-", "_")) {
				found = append(found, path)
				return filepath.SkipDir
			}
		}
		return nil
	})
	return found
}

// shared are the folders outside of the data directory in which plugins with a
// user of their own have their sockets.
func (c *Cluster) shared() []string {
	found, _ := filepath.Glob(sharedDirectory(c.Data))
	return found
}

// sockets are what an ended process listens at no more.
func (c *Cluster) sockets() []string {
	var found []string
	_ = filepath.WalkDir(c.Data, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeSocket != 0 {
			found = append(found, "socket "+path)
		}
		return nil
	})
	return found
}

// clean removes by force what Stop found left, and the data directory when it
// was made by Start.
func (c *Cluster) clean() error {
	deadline := time.Now().Add(time.Minute)
	for pids := c.processes(); len(pids) > 0; pids = c.processes() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes of cluster %s do not end: %v", c.Name, pids)
		}
		time.Sleep(10 * time.Millisecond)
	}
	mounts := c.mounts()
	slices.Reverse(mounts)
	var errs []error
	for _, m := range mounts {
		if err := syscall.Unmount(m, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", m, err))
		}
	}
	if !c.made {
		return errors.Join(errs...)
	}
	for _, dir := range c.shared() {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(append(errs, os.RemoveAll(c.Data))...)
}

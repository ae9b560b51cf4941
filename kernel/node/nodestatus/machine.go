package nodestatus

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// Machine is what was measured.
type Machine struct {
	CPUs   int
	Memory int64 // bytes
	PIDs   int64 // most processes and threads; 0: not known
	// HugePages are bytes of huge pages by the size of a page.
	HugePages map[int64]int64
	Info      corev1.NodeSystemInfo
}

// Measure reads the machine; what can not be read stays empty.
func Measure() Machine {
	m := Machine{CPUs: runtime.NumCPU(), PIDs: maxPIDs(), HugePages: hugePages(hugePagesDirectory)}
	m.Info.Architecture, m.Info.OperatingSystem = runtime.GOARCH, runtime.GOOS
	if total, _, err := memory(); err == nil {
		m.Memory = total
	}
	m.Info.MachineID = line("/etc/machine-id")
	m.Info.SystemUUID = line("/sys/class/dmi/id/product_uuid")
	if m.Info.SystemUUID == "" {
		m.Info.SystemUUID = m.Info.MachineID
	}
	m.Info.BootID = line("/proc/sys/kernel/random/boot_id")
	m.Info.KernelVersion = line("/proc/sys/kernel/osrelease")
	m.Info.OSImage = osImage()
	return m
}

func line(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func osImage() string {
	f, err := os.Open("/etc/os-release")
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "PRETTY_NAME="); ok {
			return strings.Trim(v, `"`)
		}
	}
	return ""
}

// memory is total and available, in bytes.
func memory() (total, available int64, err error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		n, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			continue
		}
		switch fields[0] {
		case "MemTotal:":
			total = n << 10
		case "MemAvailable:":
			available = n << 10
		}
	}
	return total, available, lines.Err()
}

// Disk is capacity and use of the file system that holds path, in bytes, and its inodes.
func Disk(path string) (capacity, available, inodes, inodesFree int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, 0, 0, 0, fmt.Errorf("measure file system of %s: %w", path, err)
	}
	return int64(st.Blocks) * st.Bsize, int64(st.Bavail) * st.Bsize, int64(st.Files), int64(st.Ffree), nil
}

// InternalIP is the address of the default route's interface, or any other, or loopback.
func InternalIP(ctx context.Context) string {
	if routes, err := netlink.RouteList(nil, netlink.FAMILY_V4); err == nil {
		for _, r := range routes {
			if r.Dst != nil && r.Dst.String() != "0.0.0.0/0" {
				continue
			}
			if r.Src != nil {
				return r.Src.String()
			}
			if l, err := netlink.LinkByIndex(r.LinkIndex); err == nil {
				if addrs, err := netlink.AddrList(l, netlink.FAMILY_V4); err == nil && len(addrs) > 0 {
					return addrs[0].IP.String()
				}
			}
		}
	}
	if addrs, err := net.InterfaceAddrs(); err == nil && ctx.Err() == nil {
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
				return n.IP.String()
			}
		}
	}
	return "127.0.0.1"
}

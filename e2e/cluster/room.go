package cluster

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// keptFree is what the node of a test keeps free on its disk, in bytes: a share, as by
// default, would make a test depend on what else is on the machine's disk.
const keptFree = 1 << 30

// thresholds are the settings of a node that evicts and removes images only where the disk
// is all but full.
func thresholds() []string {
	return []string{
		fmt.Sprintf("node.evictionHard={memory.available: 100Mi, nodefs.available: %d, imagefs.available: %[1]d}", int64(keptFree)),
		"node.imageGCHighThresholdPercent=100", // never
	}
}

// checkRoom fails where pods of the tests would be evicted: they would fail late, without
// a word about the disk.
func checkRoom(dir string) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return err
	}
	return enough(dir, disk.Bavail*uint64(disk.Bsize))
}

// enough says whether so many bytes are room for a cluster of a test.
func enough(dir string, free uint64) error {
	const need = 2 * keptFree
	if free < need {
		return fmt.Errorf("the disk of %s has %d MiB free, and a test wants %d: its node evicts pods below %d; make room, or set TMPDIR to another disk", dir, free>>20, need>>20, keptFree>>20)
	}
	return nil
}

package cluster

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// leastFree is the share of its disk, in percent, that a node agent keeps free by
// removing images: its own default, and the kubelet's.
const leastFree = 15

// roomForImages fails where a node agent would remove the images of the tests: pods
// would then fail late, without a word about the disk.
func roomForImages(dir string) error {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return err
	}
	free, all := disk.Bavail*uint64(disk.Bsize)>>20, disk.Blocks*uint64(disk.Bsize)>>20
	if free*100 < all*leastFree {
		return fmt.Errorf("the disk of %s has %d of %d MiB free: a node agent removes images below %d %%; make room, or set TMPDIR to another disk", dir, free, all, leastFree)
	}
	return nil
}

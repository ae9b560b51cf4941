// Package oomscore says whom the operating system ends first when memory runs out. It owns the score of this process,
// which what it starts inherits (the runtime and its shims), and the least score of a container, which lies above.
// It imports nothing of the kernel.
package oomscore

// Guest is the first process of the virtual machine. It mounts a root, and runs what the orders
// name as root of that machine.
//
// Files: root.go mounts, programs.go runs. The first process reaps what others leave, and a second
// one of the same program does the work: what the first one waits for is not taken from it.
package main

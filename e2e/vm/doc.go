// Vm runs test programs on a kernel of Debian in a virtual machine: make test-vm. Some tests
// need modules that the machine's own kernel lacks, such as those of IPVS.
//
//	go run ./e2e/vm -run TestSuite ./plugins/proxies/nftables
//
// # How it works
//
// kernel.go fetches the package of the kernel and keeps what is needed of it below build/vm.
// initial.go packs the program in the folder guest, some modules and the orders into an initial
// file system (archive.go). machine.go starts qemu with it. The machine's root is this machine's,
// read only, with a layer in memory above it: tests find their folders and tools, and change
// nothing. The machine has no network. It has two serial ports: the kernel's messages go to a
// file, the output of tests goes through. Its last line there has a word that was drawn for this
// run, and the status.
//
// Where a guest boots by KVM, it runs by that. Else qemu emulates a processor, and boots in a few
// seconds. That some kernels have /dev/kvm does not say that it takes a kernel of Debian.
//
// # What it promises
//
// It ends with status 0 where each test passed and none was skipped. It is bounded in time
// (-limit), and so is the machine by itself. It ends no process but its own, and leaves nothing
// but build/vm. It imports nothing of the product.
package main

// Pintle-executor becomes the process of a plugin, once it has put up the walls
// around itself; the kernel starts it (see kernel/plugin/confinement/executor).
package main

import "pintle.dev/pintle/kernel/plugin/confinement/executor"

func main() { executor.Main() }

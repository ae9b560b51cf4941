// Package stats measures the machine for the node agent's statistics: what all of it uses, pods or not, from /proc. It
// owns the former measurement, from which rates are made. It imports nothing of the kernel.
package stats

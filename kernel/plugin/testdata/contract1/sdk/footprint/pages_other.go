//go:build !linux

package footprint

func dropProgramPages() {}

func machineMemory() uint64 { return 0 }

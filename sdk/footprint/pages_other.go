//go:build !linux

package footprint

func dropProgramPages() {}

func restoreProgramPages() {}

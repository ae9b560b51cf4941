package main

import "pintle.dev/pintle/e2e/bench/rig"

// What the benchmarks of this folder share with those of the folders below.
type (
	figure  = rig.Figure
	peer    = rig.Peer
	side    = rig.Side
	process = rig.Process
	program = rig.Program
)

var (
	most, least, median, joined, loadAverage = rig.Most, rig.Least, rig.Median, rig.Joined, rig.LoadAverage
	mb, weigh, measure, processorTime        = rig.MB, rig.Weigh, rig.Measure, rig.ProcessorTime
	startProgram, freePorts, startEtcd       = rig.StartProgram, rig.FreePorts, rig.StartEtcd
	okAt, writeKey                           = rig.OKAt, rig.WriteKey
	parallel                                 = rig.Parallel
)

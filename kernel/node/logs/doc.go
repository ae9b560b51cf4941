// Package logs reads and rotates container log files in the CRI format (time, stream, tag, text).
//
// Rotate renames a log that grew too large, has the runtime open it anew, and gzips older rotations: N.log,
// N.log.<time> (the newest rotation, still plain because a reader may be in it), N.log.<time>.gz. It must import only
// kernel/node/cri of its siblings; reading is k8s.io/cri-client's.
package logs

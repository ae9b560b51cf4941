package pod

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/node/cri"
)

// Limits of termination messages, as the kubelet's.
const (
	maxMessage      = 4096
	maxMessageLog   = 2048
	maxMessageLines = 80
)

// terminationMessage reads a container's last words: its message file, or with FallbackToLogsOnError and a failure
// the end of its log.
func terminationMessage(ct *cri.Container) string {
	if ct.MessageFile != "" {
		if data, err := tail(ct.MessageFile, maxMessage); err == nil && len(data) > 0 {
			return strings.ToValidUTF8(string(data), "\uFFFD")
		}
	}
	if ct.MessagePolicy != corev1.TerminationMessageFallbackToLogsOnError || ct.ExitCode == 0 || ct.LogPath == "" {
		return ""
	}
	data, err := tail(ct.LogPath, 4*maxMessageLog)
	if err != nil {
		return ""
	}
	return logMessage(data)
}

// logMessage strips the CRI frame (time, stream, tag) from log lines and keeps the last of them.
func logMessage(data []byte) string {
	var lines [][]byte
	scan := bufio.NewScanner(bytes.NewReader(data))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		fields := bytes.SplitN(scan.Bytes(), []byte(" "), 4)
		if len(fields) < 4 {
			continue // cut in the middle
		}
		line := bytes.Clone(fields[3])
		if string(fields[2]) != "P" {
			line = append(line, '\n')
		}
		lines = append(lines, line)
	}
	if len(lines) > maxMessageLines {
		lines = lines[len(lines)-maxMessageLines:]
	}
	out := bytes.Join(lines, nil)
	if len(out) > maxMessageLog {
		out = out[len(out)-maxMessageLog:]
	}
	return strings.ToValidUTF8(string(out), "\uFFFD")
}

// tail reads the last n bytes of a regular file.
func tail(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	if info.Size() > n {
		if _, err := f.Seek(-n, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(f, n))
}

// message answers from the cache: a dead container says nothing new.
func (e *entry) message(ct *cri.Container) string {
	if m, ok := e.messages[ct.ID]; ok {
		return m
	}
	m := terminationMessage(ct)
	e.messages[ct.ID] = m
	return m
}

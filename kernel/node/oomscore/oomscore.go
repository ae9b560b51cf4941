package oomscore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

const (
	// Kubelet is the score of the kubelet and of the runtime; a shim has one more, and Guaranteed pods have two more.
	Kubelet = -999
	// aboveShims is how far above this process's score the least one of a container is.
	aboveShims = 2

	own = "/proc/self/oom_score_adj"
)

// Protect gives this process the kubelet's score and returns the one that it has then. It takes CAP_SYS_RESOURCE,
// which root in a container often lacks: the score then stays, and the error says so.
func Protect() (score int, err error) { return protect(own) }

func protect(file string) (int, error) {
	werr := os.WriteFile(file, []byte(strconv.Itoa(Kubelet)), 0)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // an operating system without scores
	}
	if err != nil {
		return 0, fmt.Errorf("read the score of this process for the out-of-memory killer: %w", err)
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("read the score of this process for the out-of-memory killer: %w", err)
	}
	if werr != nil {
		werr = fmt.Errorf("set the score of this process for the out-of-memory killer to %d: %w; give it CAP_SYS_RESOURCE", Kubelet, werr)
	}
	return score, werr
}

// Least is the least score of a container where the process that starts the runtime has a score: above the runtime's
// and its shims'.
func Least(process int) int64 { return int64(min(process+aboveShims, 1000)) }

package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// checkedIn is how many pods the checked-in answers are about.
const checkedIn = 2000

func main() {
	out := flag.String("out", "", "file for the clusters and answers (.gz: compressed); default: standard output")
	pods := flag.Int("pods", checkedIn, "pods asked about, at least")
	seed := flag.Uint64("seed", 1, "seed of all that is drawn")
	only := flag.String("only", "", "a family, or the id of a cluster")
	recorded := flag.Bool("tables", true, "also what kube-scheduler's own tests ask (runs them)")
	flag.Parse()
	klog.SetLogger(logr.Discard())
	metrics.Register()
	if err := run(*out, *pods, *seed, *only, *recorded); err != nil {
		fmt.Fprintln(os.Stderr, "scheduling:", err)
		os.Exit(1)
	}
}

func run(out string, pods int, seed uint64, only string, recorded bool) (err error) {
	w := io.Writer(os.Stdout)
	if out != "" {
		f, failed := os.Create(out)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		w = f
	}
	if strings.HasSuffix(out, ".gz") {
		z, _ := gzip.NewWriterLevel(w, gzip.BestCompression)
		defer func() { err = errors.Join(err, z.Close()) }()
		w = z
	}
	b := bufio.NewWriter(w)
	defer func() { err = errors.Join(err, b.Flush()) }()
	if err := drawn(context.Background(), b, pods, seed, only); err != nil || !recorded {
		return err
	}
	return recordedTables(context.Background(), b, only)
}

// drawn draws clusters and writes them with their answers.
func drawn(ctx context.Context, w io.Writer, pods int, seed uint64, only string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, f := range families {
		// Clusters a family, so that in all there are as many pods as asked for.
		for n := range (pods*f.part + 100*asked - 1) / (100 * asked) {
			if id := fmt.Sprintf("%s/%d", f.name, n); only != "" && only != f.name && only != id {
				continue
			}
			c := drawCluster(f, seed, n)
			if err := judgeAll(ctx, c); err != nil {
				return err
			}
			if err := enc.Encode(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// recordedTables records what kube-scheduler's tests ask and writes it with the
// answers.
func recordedTables(ctx context.Context, w io.Writer, only string) error {
	if only != "" && !strings.HasPrefix(only, "Table") {
		return nil
	}
	recorded, err := tables(ctx)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, c := range recorded {
		if only != "" && only != "Table" && only != c.Family && only != c.ID {
			continue
		}
		if err := judgeAll(ctx, c); err != nil {
			return err
		}
		if err := enc.Encode(c); err != nil {
			return err
		}
	}
	return nil
}

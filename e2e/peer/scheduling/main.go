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
	flag.Parse()
	klog.SetLogger(logr.Discard())
	metrics.Register()
	if err := run(*out, *pods, *seed, *only); err != nil {
		fmt.Fprintln(os.Stderr, "scheduling:", err)
		os.Exit(1)
	}
}

func run(out string, pods int, seed uint64, only string) (err error) {
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
	return write(context.Background(), b, pods, seed, only)
}

// write draws clusters and writes them with their answers.
func write(ctx context.Context, w io.Writer, pods int, seed uint64, only string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	one := func(c *cluster) error {
		if err := judgeAll(ctx, c); err != nil {
			return err
		}
		return enc.Encode(c)
	}
	for _, f := range families {
		// Clusters a family, so that in all there are as many pods as asked for.
		for n := range (pods*f.part + 100*asked - 1) / (100 * asked) {
			if id := fmt.Sprintf("%s/%d", f.name, n); only != "" && only != f.name && only != id {
				continue
			}
			if err := one(drawCluster(f, seed, n)); err != nil {
				return err
			}
		}
	}
	if only != "" && !strings.HasPrefix(only, "Table") {
		return nil
	}
	recorded, err := tables(ctx)
	if err != nil {
		return err
	}
	for _, c := range recorded {
		if only != "" && only != "Table" && only != c.Family && only != c.ID {
			continue
		}
		if err := one(c); err != nil {
			return err
		}
	}
	return nil
}

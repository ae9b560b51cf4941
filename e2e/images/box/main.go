package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var verbs = map[string]func(args []string) error{
	"serve":   serve,
	"wait":    wait,
	"env":     env,
	"echo":    func(args []string) error { fmt.Println(strings.Join(args, " ")); return nil },
	"cat":     cat,
	"write":   write,
	"list":    list,
	"exists":  exists,
	"exit":    exit,
	"lines":   lines,
	"get":     get,
	"ask":     ask,
	"lookup":  lookup,
	"whoami":  whoami,
	"consume": consume,
	"fill":    fill,
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 || verbs[os.Args[1]] == nil {
		log.Fatalf("box: want a verb")
	}
	if err := verbs[os.Args[1]](os.Args[2:]); err != nil {
		log.Fatalf("box %s: %v", os.Args[1], err)
	}
}

// wait prints a line, waits for SIGTERM, and says so; with an argument it
// prints that line first; with a second one it takes that long to end.
func wait(args []string) error {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	fmt.Println("started", strings.Join(args, " "))
	<-term
	fmt.Println("terminating")
	if len(args) > 1 {
		d, err := time.ParseDuration(args[1])
		if err != nil {
			return err
		}
		<-time.After(d)
	}
	fmt.Println("ended")
	return nil
}

func env([]string) error {
	all := os.Environ()
	slices.Sort(all)
	fmt.Println(strings.Join(all, "\n"))
	return nil
}

func cat(files []string) error {
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if _, err := os.Stdout.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// write FILE TEXT appends a line.
func write(args []string) error {
	f, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, strings.Join(args[1:], " "))
	return errors.Join(err, f.Close())
}

// list DIR prints mode, owner, group and path of each file below it.
func list(args []string) error {
	return filepath.Walk(args[0], func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		owner, _ := info.Sys().(*syscall.Stat_t)
		_, err = fmt.Println(info.Mode(), owner.Uid, owner.Gid, path)
		return err
	})
}

func exists(files []string) error {
	for _, f := range files {
		if _, err := os.Stat(f); err != nil {
			return err
		}
	}
	return nil
}

// exit CODE [TEXT] prints the text, leaves it as termination message, and ends.
func exit(args []string) error {
	code, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	if len(args) > 1 {
		text := strings.Join(args[1:], " ")
		fmt.Println(text)
		if err := os.WriteFile("/dev/termination-log", []byte(text), 0o644); err != nil {
			return err
		}
	}
	os.Exit(code)
	return nil
}

// lines N prints N lines, then waits for SIGTERM.
func lines(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	for i := range n {
		fmt.Fprintf(out, "line %d\n", i)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return wait([]string{"lines"})
}

// get URL [TOKENFILE CAFILE] prints the answer's status and body; any answer
// is a success.
func get(args []string) error {
	client := http.Client{Timeout: 5 * time.Second}
	req, err := http.NewRequest(http.MethodGet, os.ExpandEnv(args[0]), nil)
	if err != nil {
		return err
	}
	if len(args) > 2 {
		token, err := os.ReadFile(args[1])
		if err != nil {
			return err
		}
		ca, err := os.ReadFile(args[2])
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(ca) {
			return fmt.Errorf("no certificate in %s", args[2])
		}
		req.Header.Set("Authorization", "Bearer "+string(token))
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
	_, err = io.Copy(os.Stdout, resp.Body)
	return err
}

// ask greets a person at the terminal and answers until it hears bye.
func ask([]string) error {
	where := "no terminal"
	// The size is sent once the terminal is there, which may be after the
	// program began.
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		size, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
		if err != nil {
			break
		}
		where = fmt.Sprintf("a terminal of %dx%d", size.Col, size.Row)
		if size.Col > 0 || time.Now().After(deadline) {
			break
		}
	}
	fmt.Printf("this is %s\n", where)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if in.Text() == "bye" {
			fmt.Println("farewell")
			os.Exit(3)
		}
		fmt.Printf("heard %q\n", in.Text())
	}
	return in.Err()
}

func whoami([]string) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	fmt.Printf("uid=%d gid=%d groups=%v host=%s dir=%s pid=%d\n", os.Getuid(), os.Getgid(), groups, host, dir, os.Getpid())
	return nil
}

// consume MIB takes memory until it has that much or is killed.
func consume(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	var held [][]byte
	for range n {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		held = append(held, block)
	}
	fmt.Println("took", len(held))
	return wait(nil)
}

// fill FILE writes, up to 100 MiB a second, until it is killed, whatever the disk says.
func fill(args []string) error {
	f, err := os.OpenFile(args[0], os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 1<<20); ; {
		_, _ = f.Write(block)
		time.Sleep(10 * time.Millisecond) // as a disk, not as memory
	}
}

// lookup NAME prints the addresses of a name.
func lookup(args []string) error {
	ips, err := net.LookupHost(args[0])
	if err != nil {
		return err
	}
	slices.Sort(ips)
	fmt.Println(strings.Join(ips, " "))
	return nil
}

package output

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLineWriter: a plugin's records keep level and attributes in the kernel's
// log, whatever logger wrote them; every other line is there as it is, and no
// line can name another plugin or end the kernel.
func TestLineWriter(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"sdk", `{"@level":"warn","@message":"disk is full","@timestamp":"2026-01-02T03:04:05.000000Z","node":"n1","free":12}`, `level=WARN msg="disk is full" plugin=p node=n1 free=12`},
		{"slog", `{"time":"2026-01-02T03:04:05Z","level":"ERROR","msg":"disk is full","free":0.5}`, `level=ERROR msg="disk is full" plugin=p free=0.5`},
		{"other", `{"message":"disk is full","level":"fatal","at":{"node":"n1"}}`, `level=ERROR msg="disk is full" plugin=p at="{\"node\":\"n1\"}"`},
		{"no level", `{"msg":"x"}`, `level=INFO msg=x plugin=p`},
		{"unknown level", `{"msg":"x","level":"loud"}`, `level=INFO msg=x plugin=p`},
		{"level of a number", `{"msg":"x","level":30}`, `level=INFO msg=x plugin=p @level=30`},
		{"names itself", `{"msg":"x","plugin":"other","source":"host"}`, `level=INFO msg=x plugin=p @plugin=other @source=host`},
		{"text of a number", `{"@message":5}`, `level=INFO msg="plugin wrote" plugin=p line="{\"@message\":5}"`},
		{"level of null", `{"@message":"x","@level":null,"@timestamp":7}`, `level=INFO msg=x plugin=p @level=<nil>`},
		{"plain", `disk is full`, `level=INFO msg="plugin wrote" plugin=p line="disk is full"`},
		{"array", `["msg"]`, `level=INFO msg="plugin wrote" plugin=p line="[\"msg\"]"`},
		{"cut", `{"msg":"x"`, `level=INFO msg="plugin wrote" plugin=p line="{\"msg\":\"x\""`},
		{"two", `{"msg":"x"}{"msg":"y"}`, `level=INFO msg="plugin wrote" plugin=p line="{\"msg\":\"x\"}{\"msg\":\"y\"}"`},
		{"slog without a handler", `2026/11/23 12:00:00 WARN disk is full node=n1`, `level=WARN msg="disk is full node=n1" plugin=p`},
		{"slog with microseconds and a level between", `2026/11/23 12:00:00.000001 INFO+2 x`, `level=INFO+2 msg=x plugin=p`},
		{"a date alone", `2026/11/23 12:00:00 disk is full`, `level=INFO msg="plugin wrote" plugin=p line="2026/11/23 12:00:00 disk is full"`},
		{"slog's text", `time=2026-11-23T12:00:00.000Z level=ERROR msg="disk is \"full\"" node=n1 plugin=other note="a b"`, `level=ERROR msg="disk is \"full\"" plugin=p node=n1 @plugin=other note="a b"`},
		{"text without a level", `msg=x node=n1`, `level=INFO msg="plugin wrote" plugin=p line="msg=x node=n1"`},
		{"text that is cut", `level=INFO msg="x`, `level=INFO msg="\"x" plugin=p`},
		{"a terminal in quotes", `level=INFO msg="\x1b[31m\xff"`, `level=INFO msg="\x1b[31m�" plugin=p`},
		{"panic", "panic: no", `level=ERROR msg="plugin wrote" plugin=p line="panic: no"`},
		{"escape", "\x1b[31mred", `level=INFO msg="plugin wrote" plugin=p line=1b5b33316d726564`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}})).With("plugin", "p")
			r := &TakenReader{strings.NewReader(test.in), &LineWriter{Log: log, Max: MaxRecordLine}}
			if n, err := r.Read(make([]byte, 8)); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("go-plugin was handed %d bytes, %v", n, err)
			}
			if got := strings.TrimSuffix(out.String(), "\n"); got != test.want {
				t.Errorf("log:\n%s\nwant:\n%s", got, test.want)
			}
		})
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"@level":"warn","@message":"m","@timestamp":"t","k":[1,{"a":2}]}`))
	f.Add([]byte(`{"msg":5,"msg":"again","level":{}}`))
	f.Add([]byte("{\"msg\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, ok := parseRecord(line)
		if !ok {
			return
		}
		if r.level < slog.LevelDebug || r.level > slog.LevelError || len(r.attrs) > maxRecordAttributes || !utf8.ValidString(r.text) {
			t.Errorf("%q is %v", line, r)
		}
		for _, a := range r.attrs {
			if a.Key == "plugin" || a.Key == slog.MessageKey && r.text == "" {
				t.Errorf("%q has %v", line, a)
			}
		}
	})
}

package controller

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// DecodeConfig reads a plugin's configuration, one JSON object without unknown keys, into a
// struct that has the defaults. No data leaves them.
func DecodeConfig(data []byte, into any) error {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil
	}
	if data[0] != '{' {
		return errors.New("configuration: want an object")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("configuration: want one object, and nothing behind it")
	}
	return nil
}

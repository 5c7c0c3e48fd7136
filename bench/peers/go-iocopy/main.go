// A stand-in for the class of Minecraft routers written in Go: reads the handshake, looks the hostname up in a
// map, dials, replays what it has read and runs io.Copy in two goroutines, which splices on Linux. It is nobody's
// product: it has no logs, no metrics and no limits, all of which would cost it something.
//
//	go-iocopy LISTEN BACKEND ROUTES
//
// Hostnames of ROUTES (one a line) lead to BACKEND. Any other is answered with a status, as a sleeping server is.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

const status = `{"version":{"name":"1.21.1","protocol":767},"players":{"max":20,"online":0},` +
	`"description":{"text":"This server is asleep. Join to wake it up!"}}`

func main() {
	listen, backend, routesFile := os.Args[1], os.Args[2], os.Args[3]
	list, err := os.ReadFile(routesFile)
	if err != nil {
		log.Fatal(err)
	}
	routes := map[string]string{}
	for _, host := range strings.Fields(string(list)) {
		routes[host] = backend
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		log.Fatal(err)
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			log.Print(err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go serve(client.(*net.TCPConn), routes)
	}
}

func serve(client *net.TCPConn, routes map[string]string) {
	defer client.Close()
	_ = client.SetReadDeadline(time.Now().Add(5 * time.Second))
	var seen bytes.Buffer
	reader := bufio.NewReader(io.TeeReader(client, &seen))
	handshake, err := frame(reader)
	if err != nil {
		return
	}
	host, err := hostname(handshake)
	if err != nil {
		return
	}
	backend, known := routes[strings.ToLower(host)]
	if !known {
		answerStatus(client, reader)
		return
	}
	dialed, err := net.DialTimeout("tcp", backend, 5*time.Second)
	if err != nil {
		return
	}
	server := dialed.(*net.TCPConn)
	defer server.Close()
	if _, err := server.Write(seen.Bytes()); err != nil {
		return
	}
	_ = client.SetReadDeadline(time.Time{})
	var both sync.WaitGroup
	both.Add(2)
	go pump(&both, server, client)
	go pump(&both, client, server)
	both.Wait()
}

func pump(both *sync.WaitGroup, to, from *net.TCPConn) {
	defer both.Done()
	_, _ = io.Copy(to, from)
	_ = to.CloseWrite()
}

func answerStatus(client *net.TCPConn, reader *bufio.Reader) {
	if _, err := frame(reader); err != nil { // the status request
		return
	}
	text := append(varint(len(status)), status...)
	body := append([]byte{0}, text...)
	if _, err := client.Write(append(varint(len(body)), body...)); err != nil {
		return
	}
	ping, err := frame(reader)
	if err != nil {
		return
	}
	_, _ = client.Write(append(varint(len(ping)), ping...))
}

func frame(reader *bufio.Reader) ([]byte, error) {
	length, err := readVarint(reader)
	if err != nil {
		return nil, err
	}
	if length < 1 || length > 4096 {
		return nil, errors.New("length of a frame")
	}
	body := make([]byte, length)
	_, err = io.ReadFull(reader, body)
	return body, err
}

func hostname(handshake []byte) (string, error) {
	reader := bytes.NewReader(handshake)
	var length int
	for range [3]int{} { // the packet, the protocol, the length of the name
		var err error
		if length, err = readVarint(reader); err != nil {
			return "", err
		}
	}
	if length < 0 || length > reader.Len() {
		return "", errors.New("length of a hostname")
	}
	host := make([]byte, length)
	_, err := io.ReadFull(reader, host)
	return string(host), err
}

func readVarint(reader io.ByteReader) (int, error) {
	value := 0
	for shift := 0; shift < 35; shift += 7 {
		b, err := reader.ReadByte()
		if err != nil {
			return 0, err
		}
		value |= int(b&0x7f) << shift
		if b&0x80 == 0 {
			return value, nil
		}
	}
	return 0, errors.New("varint is too long")
}

func varint(value int) []byte {
	var out []byte
	for ; value >= 0x80; value >>= 7 {
		out = append(out, byte(value)|0x80)
	}
	return append(out, byte(value))
}

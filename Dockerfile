# One static binary and nothing else: certificates are inside it. scripts/image prepares what is copied.
FROM scratch
COPY swarmgate /swarmgate
COPY swarmgate.toml /etc/swarmgate/swarmgate.toml
COPY --chown=65532:65532 data /data
ENV SWARMGATE_CONFIG=/etc/swarmgate/swarmgate.toml SWARMGATE_DATA_DIR=/data
USER 65532:65532
VOLUME /data
EXPOSE 25565
HEALTHCHECK --interval=5s --timeout=5s --start-period=10s CMD ["/swarmgate", "health"]
ENTRYPOINT ["/swarmgate"]
CMD ["run"]
